/** Programs that run in VMs beside the app: terminals and commands, with a WebSocket for each client; and files of VMs. */
export { vmFileFeature } from './file-routes.ts'
export { vmSessionFeature } from './routes.ts'
export { sessionUpkeep } from './sweep.ts'
export { appLogins } from './shell-login.ts'
export { startShellReceiver } from './shell.ts'
