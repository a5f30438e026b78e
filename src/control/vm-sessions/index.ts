/**
 * Programs that run in VMs beside the app (terminals and commands, with a WebSocket for the client), and access to
 * files in VMs.
 */
export { vmFileFeature } from './file-routes.ts'
export { vmSessionFeature } from './routes.ts'
export { sessionUpkeep } from './sweep.ts'
export { appLogins } from './shell-login.ts'
export { startShellReceiver } from './shell.ts'
