export { deploy } from './deploy.ts'
export { removeDeployment } from './end.ts'
export { deploymentMachine } from './machine.ts'
export { deploymentFeature } from './routes.ts'
