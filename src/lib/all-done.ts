/**
 * Like `Promise.all`, but rejects only after all promises have settled, so that their work can safely be undone or
 * repeated.
 * @throws the failure that happened first
 */
export async function allDone<T extends readonly unknown[] | []>(
  parts: T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  const results = Promise.all(parts)
  // Ignore rejections for now, because the result is awaited below. Without a listener, a rejection would end the
  // process.
  results.catch(() => undefined)
  await Promise.allSettled(parts)
  return results
}
