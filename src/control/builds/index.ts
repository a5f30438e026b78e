/** Builds of images from git repositories and uploaded sources. */
export { type SourceApp, type SourceCommit, deployFromSource, deployFromUpload, newestCommit } from './create.ts'
export type { SourceAuth, SourceCredential } from './deps.ts'
export { type GitPlace, gitPlace } from './rules.ts'
export {
  type BuildSettings,
  type BuildSettingsRequest,
  buildSettingsOf,
  noBuildSettings,
} from './settings.ts'
export { buildWorkflow } from './workflow.ts'
export { startBuildReceiver } from './receiver.ts'
export { buildFeature } from './routes.ts'
export { assertRetained, checkSource } from './sources.ts'
export { buildLogRetention, sourceRetention } from './sweep.ts'
