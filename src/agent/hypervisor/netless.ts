/** Starts a VMM without a network but its tap (netless.c). */
import { nativeProgram } from '../guest/native.ts'

/** What the tap is open as. */
export const tapFd = 3

/**
 * The program, compiled at first use. It is static, so that it does not read a library that is preloaded for the VMM.
 * @throws Error where there is no compiler
 */
export const buildNetless = (cacheDir: string): Promise<string> =>
  nativeProgram(cacheDir, new URL('./netless.c', import.meta.url))

/** The command that starts this one so. */
export const withoutNetwork = (
  netless: string,
  tap: string,
  program: string,
  args: readonly string[],
): { readonly program: string; readonly args: readonly string[] } => ({
  program: netless,
  args: [tap, String(tapFd), program, ...args],
})
