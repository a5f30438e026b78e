/** CPU time of tests. */

/**
 * Returns the CPU time that this thread spends until `work` ends, in milliseconds. Unlike elapsed time, it does not
 * include the time for which other programs had the core.
 */
export async function threadCpuMs(work: () => unknown): Promise<number> {
  const before = process.threadCpuUsage()
  await work()
  const { user, system } = process.threadCpuUsage(before)
  return (user + system) / 1000
}
