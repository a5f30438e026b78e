import type { Deps } from '../deps.ts'

export type DatabaseDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'vault' | 'log'>
