import { breakdownFamilies, families as dlq, filterFamilies } from '../collectors/dlq/families.ts';
import { events } from '../collectors/events/events.ts';
import { flowControl } from '../collectors/flow-control/flow-control.ts';
import type { Recorded } from '../history/sampling.ts';
import { autoCancelFamilies } from '../metrics/auto-cancel.ts';
import { ownFamilies } from '../metrics/own.ts';

/** The table: of which families the history has samples, and of which of their series. docs/operate.md has it, too. */
export const recorded: readonly Recorded[] = [
  { family: dlq.messages },
  { family: dlq.entered },
  { family: dlq.left },
  { family: dlq.oldestEntered },
  { family: filterFamilies.filterMessages, largest: 20 },
  { family: breakdownFamilies.urlHost, largest: 10 },
  { family: breakdownFamilies.responseStatus, largest: 10 },
  { family: dlq.callbacks },
  { family: dlq.suspected },
  { family: events.families.total },
  { family: events.families.finished },
  { family: events.families.overdue },
  { family: events.families.inFlight },
  { family: events.families.oldestInFlight },
  { family: events.families.newest },
  { family: events.families.answers },
  { family: events.families.timeToDeliver },
  { family: events.families.gaps },
  { family: events.families.scheduleMissed },
  { family: events.families.scheduleLate },
  {
    family: flowControl.families.waitlistSize,
    sum: true,
    largest: 20,
    along: [flowControl.families.parallelismInUse],
  },
  { family: ownFamilies.requests, without: ['endpoint'] },
  { family: ownFamilies.rowsRejected },
  { family: ownFamilies.listsMissing },
  { family: ownFamilies.budgetRemaining },
  { family: ownFamilies.up },
  { family: ownFamilies.tokenRejected },
  { family: autoCancelFamilies.candidates },
  { family: autoCancelFamilies.actions },
];
