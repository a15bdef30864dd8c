import { answerServices } from './answer-services.ts';
import { connectionServices } from './connection-services.ts';
import { protocolServices } from './protocol-services.ts';
import { refusingServices } from './refusing-services.ts';
import type { HostileService } from './service.ts';
import { sizeServices } from './size-services.ts';

/** The hostile services, each with the reports that are expected from the agent. */
export const hostileServices: readonly HostileService[] = [
  ...connectionServices,
  ...protocolServices,
  ...answerServices,
  ...refusingServices,
  // A busy machine needs longer to send and parse large responses.
  ...sizeServices.map(service => ({ ...service, timeout: '60s' })),
];
