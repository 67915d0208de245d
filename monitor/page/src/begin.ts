// Runs while the browser still loads and reads the other scripts: the answers are there when those begin.
import { askState, connect, type Early } from "./link/early.ts";

const source = Number(/[#&]s=(\d+)/.exec(location.hash)?.[1] ?? 0);
const early: Early = { source, state: askState(source), socket: connect(), messages: [] };
early.socket.onmessage = message => early.messages.push(message.data as ArrayBuffer);
// Whoever waits for the state hears of the failure.
early.state.catch(() => undefined);
Object.assign(globalThis, { early });
