import { Raster } from "../panels/Raster.tsx";
import { Outputs } from "../panels/Outputs.tsx";
import { Latency } from "../panels/Latency.tsx";
import { Timeline } from "../panels/Timeline.tsx";

export const Live = () => <main class="live"><Raster /><Timeline /><Outputs /><Latency /></main>;
