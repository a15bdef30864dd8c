/** `text`: Prometheus text 0.0.4. `openmetrics`: OpenMetrics 1.0.0. `protobuf`: Prometheus' delimited messages. */
export type Format = 'text' | 'openmetrics' | 'protobuf';

/** All families, those of the agent itself, or those of one account. */
export type Scope = 'everything' | 'agent' | { readonly account: string };
