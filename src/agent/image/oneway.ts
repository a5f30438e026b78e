/** Runs a program whose only network connection leads to one unix socket (oneway.c). */
import { run } from '../../lib/exec.ts'
import { nativeProgram } from '../guest/native.ts'

/** TCP port on the isolated program's own loopback device that leads to the unix socket. */
export const wayOutPort = 3128

/** The compiled starter program (oneway.c), or the reason why this host cannot isolate programs with it. */
export type OneWay = { readonly program: string } | { readonly program: undefined; readonly reason: string }

/**
 * Compiles and tests the starter program at first use. The test may fail, because containers may forbid network
 * namespaces, and kernels may forbid them without root.
 */
export async function findOneWay(cacheDir: string): Promise<OneWay> {
  try {
    const program = await nativeProgram(cacheDir, new URL('./oneway.c', import.meta.url))
    await run(program, ['/nonexistent', String(wayOutPort), 'true'])
    return { program }
  } catch (error) {
    return { program: undefined, reason: String(error) }
  }
}

/**
 * Returns a function that compiles and tests the starter program at its first call, and always returns the same result.
 */
export function oneWayIn(cacheDir: string): () => Promise<OneWay> {
  let found: Promise<OneWay> | undefined
  return () => (found ??= findOneWay(cacheDir))
}
