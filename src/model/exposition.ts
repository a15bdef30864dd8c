/** `text`: Prometheus text 0.0.4. `openmetrics`: OpenMetrics 1.0.0. `protobuf`: Prometheus' delimited messages. */
export type Format = 'text' | 'openmetrics' | 'protobuf';

/** All families, only agent-wide ones, or only one account's. */
export type Scope = 'everything' | 'agent' | { readonly account: string };
