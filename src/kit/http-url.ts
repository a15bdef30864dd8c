import { z } from 'zod';

export const httpUrl = z.string().refine(
  text => {
    const url = URL.parse(text);
    return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#\s]/.test(text);
  },
  { error: 'must be an http or https address without user, query or fragment' },
);

/** Whether traffic to a host stays on this machine. */
export function isLoopback(hostname: string): boolean {
  if (/^(.+\.)?localhost\.?$/.test(hostname) || hostname === '[::1]') return true;
  return /^127(\.\d+){3}$/.test(hostname);
}
