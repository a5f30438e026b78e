export { type SourceApp, type SourceCommit, deployFromSource, newestCommit } from './create.ts'
export type { SourceAuth } from './deps.ts'
export { buildMachine } from './machine.ts'
export { startBuildReceiver } from './receiver.ts'
