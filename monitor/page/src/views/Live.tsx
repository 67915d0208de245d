import { Raster } from "../panels/Raster.tsx";
import { Outputs } from "../panels/Outputs.tsx";
import { Latency } from "../panels/Latency.tsx";
import * as state from "../state.ts";
import { Timeline } from "../panels/Timeline.tsx";

export const Live = () => <main class={state.file.value ? "live file" : "live"}><Raster /><Timeline /><Outputs />{!state.file.value && <Latency />}</main>;
