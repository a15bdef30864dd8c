export const BLIND = 'account_collector:delivery_collector_data_stale:min';
