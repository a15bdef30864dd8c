import { messageProblems } from './message-problems.ts';
import type { ProblemCase } from './problem.ts';
import { queueProblems } from './queue-problems.ts';
import { readingProblems } from './reading-problems.ts';

export const problemCases: readonly ProblemCase[] = [...readingProblems, ...messageProblems, ...queueProblems];
