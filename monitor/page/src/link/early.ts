// Requests of the page's first picture. `begin.ts` sends them before the other scripts are there.
export interface Early {
  /** Number of the recording whose state is asked for. */
  source: number;
  state: Promise<Response>;
  socket: WebSocket;
  /** Messages that nobody has read yet. */
  messages: ArrayBuffer[];
}

/** Opens the socket of the page's frames. */
export function connect(): WebSocket {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${location.host}${location.pathname}live`, "betz.v1");
  socket.binaryType = "arraybuffer";
  return socket;
}

export const askState = (source: number): Promise<Response> => fetch(`api/state?source=${source}`);
