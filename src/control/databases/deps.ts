import type { Deps } from '../base/deps.ts'

export type DatabaseDeps = Pick<Deps, 'db' | 'bus' | 'config' | 'vault' | 'log'>
