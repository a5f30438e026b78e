/**
 * Runs: one-off VMs with the image and environment of a deployment, for commands of users, release commands and jobs.
 */
export { cancelRelease, cancelRun, createRun, pokeRuns } from './create.ts'
export { runRetention } from './sweep.ts'
export {
  inApp as runInApp,
  isRunVm,
  ofApp as runsOfApp,
  openInProject as openRuns,
  release as releaseRun,
  type Run,
} from './store.ts'
export { lastLines, runWorkflow } from './workflow.ts'
