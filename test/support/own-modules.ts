import { vi } from 'vitest';

/**
 * Loaded before each unit test file. Files share processes to save startup time, but not modules, which may contain
 * another file's state or mocks.
 */
vi.resetModules();
