import { vi } from 'vitest';

/**
 * Loaded before each unit test file. They share processes, which saves a start for each, but no module of ours: one may hold what
 * another file has left, or mocked.
 */
vi.resetModules();
