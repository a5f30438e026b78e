/**
 * As `Promise.all`, but what follows a failure finds all of them at rest: what they write can be taken away or made again.
 * @throws the first failure, in the order of time
 */
export async function allDone<T extends readonly unknown[] | []>(
  parts: T,
): Promise<{ -readonly [P in keyof T]: Awaited<T[P]> }> {
  const results = Promise.all(parts)
  // Told at the end. Until then nobody else listens, and a failure that nobody listens to ends the process.
  results.catch(() => undefined)
  await Promise.allSettled(parts)
  return results
}
