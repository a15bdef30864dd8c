/** An address without user, query and fragment, which may hold secrets: `…` stands for them. Other text as it is. */
export function bareAddress(text: string): string {
  return text.replace(/^(https?:\/\/)(?:[^/?#]*@)?([^?#]*)([?#].*)?$/isu, (_, scheme, rest, query) =>
    [scheme, rest, query && '?…'].join(''),
  );
}
