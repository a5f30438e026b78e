export function reasonOf(output: string): string
export function npmInstall(cwd: string, node?: string, wanted?: readonly string[], askAfterMs?: number): Promise<void>
