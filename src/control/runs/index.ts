/** One-off VMs with the image and environment of a deployment: commands of people, and release commands. */
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
