/**
 * The host that a Host header names: lower case, without its port and the dot of the root, an IPv6 address in brackets and as short as can be;
 * undefined where it names none.
 */
export function hostOf(header: string | undefined): string | undefined {
  // A Host header is only ever a host: what else it brings would end up in an address.
  if (!/^[\w.:[\]-]+$/.test(header ?? '')) return undefined;
  return URL.parse(`http://${header}`)?.hostname.replace(/\.$/, '') || undefined;
}
