// A decoder in WebAssembly: open a model file, step it. The functions are those of src/lib.rs.

export class Decoder {
    /** @param {BufferSource} wasm */
    static async load(wasm) {
        const { instance } = await WebAssembly.instantiate(wasm, {});
        return new Decoder(instance.exports);
    }

    constructor(wasm) {
        this.wasm = wasm;
        this.outputs = [];
    }

    /** Opens a session of a model file. Throws in Betz's words; the session before goes on then. */
    open(file) {
        const { wasm } = this;
        const bytes = new Uint8Array(file);
        const room = wasm.room(bytes.length);
        new Uint8Array(wasm.memory.buffer, room, bytes.length).set(bytes);
        this.#succeeds(wasm.open());
        this.channels = wasm.channels();
        this.stepSeconds = wasm.step_seconds();
        this.outputs = Array.from({ length: wasm.outputs() }, (_, output) => {
            wasm.name(output);
            return this.#text();
        });
    }

    /** One step of spike counts, one per channel; the estimates, one per output. */
    step(counts) {
        const { wasm } = this;
        new Uint16Array(wasm.memory.buffer, wasm.counts(), this.channels).set(counts);
        this.#succeeds(wasm.step());
        return new Float32Array(wasm.memory.buffer, wasm.estimates(), this.outputs.length).slice();
    }

    #succeeds(status) {
        if (status !== 0) throw new Error(this.#text());
    }

    #text() {
        const { wasm } = this;
        return new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, wasm.text(), wasm.text_length()));
    }
}
