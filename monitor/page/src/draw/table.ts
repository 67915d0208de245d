// Tables for export: a head that describes them, a line of names, and rows.
export const quoted = (text: string): string => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
const cell = (v: string | number | null | undefined): string => v === null || v === undefined || typeof v === "number" && Number.isNaN(v) ? "" : quoted(String(v));

/** `head`: what the table is of, by name; a cell that is not known is empty. */
export function table(head: Record<string, string>, columns: string[], rows: Iterable<(string | number | null | undefined)[]>): string {
  const lines = Object.entries(head).map(([name, value]) => `# ${name}: ${value.replace(/[\n\r]/g, " ")}`);
  lines.push(columns.map(quoted).join(","));
  for (const row of rows) lines.push(row.map(cell).join(","));
  return lines.join("\n") + "\n";
}
