/** The font of all canvases. */
export const font = (size = 11): string => `${size}px system-ui,"DejaVu Sans",sans-serif`;
