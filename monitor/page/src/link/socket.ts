// The WebSocket: receives frames and reports how many messages were drawn. Reconnects when the connection is lost.
import { connect, type Early } from "./early.ts";
import { parseAll, FrameError, type Frame } from "./frame.ts";

export interface Listener {
  frame(frame: Frame, lost: boolean): void;
  connection(state: "open" | "lost" | "version" | "damaged"): void;
}

export class Link {
  skipped = 0; frames = 0; bytes = 0;
  private socket: WebSocket | null = null;
  private messages = 0;
  private sequence = -1;
  private delay = 250;
  private stopped = false;

  /** `early`: a socket that the page has connected already, with the messages that it has received. */
  constructor(private readonly listener: Listener, early?: Early) { this.connect(early); }

  private connect(early?: Early): void {
    const used = early && early.socket.readyState <= WebSocket.OPEN ? early : null, socket = this.socket = used?.socket ?? connect();
    socket.onopen = () => { this.messages = 0; this.sequence = -1; this.delay = 250; this.listener.connection("open"); };
    socket.onmessage = message => this.message(message.data as ArrayBuffer);
    socket.onclose = () => {
      if (this.stopped) return;
      this.listener.connection("lost");
      setTimeout(() => this.connect(), this.delay * (0.75 + Math.random() / 2));
      this.delay = Math.min(8000, this.delay * 2);
    };
    if (used && socket.readyState === WebSocket.OPEN) this.listener.connection("open");
    for (const message of used?.messages.splice(0) ?? []) this.message(message);
  }

  private message(data: ArrayBuffer): void {
    this.bytes += data.byteLength;
    this.messages++;
    try {
      for (const frame of parseAll(data)) {
        const lost = this.sequence >= 0 ? frame.sequence - this.sequence - 1 >>> 0 : 0;
        this.skipped += lost;
        this.sequence = frame.sequence;
        this.frames++;
        this.listener.frame(frame, lost > 0);
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.stopped = error.version;
      this.listener.connection(error.version ? "version" : "damaged");
      this.socket?.close();
    }
  }

  /** Closes for good: a recording sends no frames. */
  stop(): void {
    const socket = this.socket!;
    this.stopped = true;
    // Browsers log an error if a socket is closed before it is open.
    if (socket.readyState === WebSocket.CONNECTING) socket.onopen = () => socket.close(); else socket.close();
  }

  /** Reports that the received messages are drawn, so that the server may send as many more. */
  drawn(): void {
    if (this.messages > 0 && this.socket?.readyState === WebSocket.OPEN) this.socket.send(new Uint32Array([this.messages]));
    this.messages = 0;
  }
}
