import { healthUrl } from '../config/health-url.ts';
import { askHealth } from '../http/ask-health.ts';

/** Rejects unless the agent that runs with this configuration file on this machine answers. */
export const checkHealth = async (file: string): Promise<void> => askHealth(healthUrl(file));
