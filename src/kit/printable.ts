/** Text of others as a terminal may show it: what would move its cursor, turn its lines round, or worse, is replaced. */
export const printable = (text: string) => text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, '\u{fffd}');
