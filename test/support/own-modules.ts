import { vi } from 'vitest';

/**
 * Loaded before each unit test file. Files share processes to save start time, but no modules, which may contain state
 * or mocks of another file.
 */
vi.resetModules();
