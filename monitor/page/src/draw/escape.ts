/** Text within XML and HTML: markup escaped, characters that XML does not have left out. */
export const safe = (text: string): string => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "").replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
