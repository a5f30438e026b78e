/** Runs a program whose only network connection is one socket (oneway.c). */
import { run } from '../../lib/exec.ts'
import { nativeProgram } from '../guest/native.ts'

/** Port on which the program reaches that socket, on a loopback device of its own. */
export const wayOutPort = 3128

/** The starter program, or why this host cannot run programs this way. */
export type OneWay = { readonly program: string } | { readonly program: undefined; readonly reason: string }

/**
 * Compiles and tests the starter at first use: a container may forbid network namespaces, and a kernel may forbid them
 * without root.
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

/** Returns a function that gives all callers the same result. */
export function oneWayIn(cacheDir: string): () => Promise<OneWay> {
  let found: Promise<OneWay> | undefined
  return () => (found ??= findOneWay(cacheDir))
}
