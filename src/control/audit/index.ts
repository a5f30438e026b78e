export { type ChainVerdict, verifyAuditChain } from './chain.ts'
export { auditFeature } from './routes.ts'
export { auditRetention, auditSealing } from './sweep.ts'
export { type AuditActor, auditWriter, unknownAccount, writeAudit } from './writer.ts'
