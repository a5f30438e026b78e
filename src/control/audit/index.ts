/** The audit log: rows are written in the transaction of each change and sealed as a hash chain. */
export { type ChainVerdict, verifyAuditChain } from './chain.ts'
export { auditHeads, readHeads } from './heads.ts'
export { auditFeature } from './routes.ts'
export { auditRetention, auditSealing } from './sweep.ts'
export { type AuditActor, auditWriter, unknownAccount, writeAudit } from './writer.ts'
