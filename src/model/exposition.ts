/** `text`: Prometheus text 0.0.4. `openmetrics`: OpenMetrics 1.0.0. `protobuf`: Prometheus' delimited messages. */
export type Format = 'text' | 'openmetrics' | 'protobuf';

/** Everything, the agent's own families, or one account's. */
export type Scope = 'everything' | 'agent' | { readonly account: string };
