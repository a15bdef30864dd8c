/** One keyed row to write; `null` deletes it. Keys are at most 512 characters. */
export interface Change {
  readonly key: string;
  readonly value: string | null;
}
