export function reasonOf(output: string): string
