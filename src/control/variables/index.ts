/** Groups of variables that apps share, and versions of the variables of apps and groups. */
export { checkEnvName, checkEnvSize } from './rules.ts'
export { variableFeature } from './routes.ts'
export { appSize } from './store.ts'
export { changeVariables } from './version-store.ts'
