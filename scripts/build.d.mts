/** Types of build.mjs, which is plain JavaScript because the bootstrap runs it before anything is installed. */
export function build(entries: Readonly<Record<string, string>>, outDir: string): Promise<void>
export function buildPrograms(): Promise<void>
export const programFlags: readonly string[]
export function programFile(): string
