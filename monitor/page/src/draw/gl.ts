// WebGL2 helpers.
export type Rgb = [number, number, number];

export function program(gl: WebGL2RenderingContext, vertex: string, fragment: string): WebGLProgram {
  const result = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]] as const) {
    const shader = gl.createShader(kind);
    if (!shader) throw new Error("no shader can be made");
    gl.shaderSource(shader, `#version 300 es\nprecision highp float;\n${text}`);
    gl.compileShader(shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) throw new Error(gl.getShaderInfoLog(shader) ?? "a shader does not compile");
    gl.attachShader(result, shader);
  }
  gl.linkProgram(result);
  return result;
}
