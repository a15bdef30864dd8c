import { answerServices } from './answer-services.ts';
import { connectionServices } from './connection-services.ts';
import { protocolServices } from './protocol-services.ts';
import { refusingServices } from './refusing-services.ts';
import type { HostileService } from './service.ts';
import { sizeServices } from './size-services.ts';

/** The hostile services, with how the agent must report each. */
export const hostileServices: readonly HostileService[] = [
  ...connectionServices,
  ...protocolServices,
  ...answerServices,
  ...refusingServices,
  // They are about what an answer holds, not about how fast a busy machine takes it.
  ...sizeServices.map(service => ({ ...service, timeout: '60s' })),
];
