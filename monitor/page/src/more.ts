// Views of a script of their own: the first view does not wait for them.
export { SelfMap } from "./views/Map.tsx";
export { Networks } from "./views/Networks.tsx";
export { Counted, Episodes } from "./views/Episodes.tsx";
export { Model } from "./views/Model.tsx";
export { Simulation } from "./views/Simulation.tsx";
export { Channels } from "./views/Channels.tsx";
export { Trials } from "./views/Trials.tsx";
export { Range } from "./panels/Range.tsx";
export { Export } from "./panels/Export.tsx";
export { Histogram } from "./panels/Histogram.tsx";
