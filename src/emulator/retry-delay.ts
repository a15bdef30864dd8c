/** The service's default delay in milliseconds before retry `attempt`, 1 and up: 12 s, 148 s, 30 min, 6 h, a day. */
export const retryDelay = (attempt: number) => Math.round(Math.min(86_400, Math.exp(2.5 * attempt)) * 1000);
