/** Starts a VMM in a network namespace whose only link to the outside is the VM's tap (netless.c). */
import { nativeProgram } from '../guest/native.ts'

/** File descriptor of the open tap. */
export const tapFd = 3

/**
 * Compiles netless.c on first use. The program is linked statically, so that a library that is preloaded for the VMM
 * does not affect it.
 * @throws Error if no C compiler is installed
 */
export const buildNetless = (cacheDir: string): Promise<string> =>
  nativeProgram(cacheDir, new URL('./netless.c', import.meta.url))

/** Returns the command that runs the program under netless. */
export const withoutNetwork = (
  netless: string,
  tap: string,
  program: string,
  args: readonly string[],
): { readonly program: string; readonly args: readonly string[] } => ({
  program: netless,
  args: [tap, String(tapFd), program, ...args],
})
