/** A program with one way out (oneway.c). */
import { run } from '../../lib/exec.ts'
import { nativeProgram } from '../guest/native.ts'

/** Where the way out begins, as the program sees it: a port of a loopback device that nobody else has. */
export const wayOutPort = 3128

/** Whether this host can start programs so. */
export type OneWay = { readonly program: string } | { readonly program: undefined; readonly reason: string }

/** Compiled at first use, and tried: a container may refuse network namespaces, and a kernel those without root. */
export async function findOneWay(cacheDir: string): Promise<OneWay> {
  try {
    const program = await nativeProgram(cacheDir, new URL('./oneway.c', import.meta.url))
    await run(program, ['/nonexistent', String(wayOutPort), 'true'])
    return { program }
  } catch (error) {
    return { program: undefined, reason: String(error) }
  }
}

/** One result for all callers. */
export function oneWayIn(cacheDir: string): () => Promise<OneWay> {
  let found: Promise<OneWay> | undefined
  return () => (found ??= findOneWay(cacheDir))
}
