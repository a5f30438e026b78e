import { appLogOperations } from './app-logs/schema.ts'
import { appFileOperations } from './apps/file-schema.ts'
import { appOperations } from './apps/schema.ts'
import { auditOperations } from './audit/schema.ts'
import { authOperations } from './auth/schema.ts'
import { billingOperations } from './billing/schema.ts'
import { billingWebhookOperations } from './billing/webhook-schema.ts'
import { buildOperations } from './builds/schema.ts'
import { databaseOperations, upcallOperations } from './databases/schema.ts'
import { deploymentOperations } from './deployments/schema.ts'
import { domainOperations } from './domains/schema.ts'
import { apiDocsOperations } from './api-docs/schema.ts'
import { healthOperations } from './health/schema.ts'
import { jobOperations } from './jobs/schema.ts'
import { networkOperations } from './network/schema.ts'
import { notificationOperations } from './notifications/schema.ts'
import { projectOperations } from './projects/schema.ts'
import { hostOperations } from './fleet/schema.ts'
import { historyOperations } from './history/schema.ts'
import { registryOperations } from './registries/schema.ts'
import { runOperations } from './run-operations/schema.ts'
import { scmOperations } from './scm/schema.ts'
import { scmWebhookOperations } from './scm/webhook-schema.ts'
import { tcpServiceOperations } from './tcp-services/schema.ts'
import { usageOperations } from './usage/schema.ts'
import { variableOperations } from './variables/schema.ts'
import { vmFileOperations } from './vm-sessions/file-schema.ts'
import { vmSessionOperations } from './vm-sessions/schema.ts'
import { vmOperations } from './vms/schema.ts'
import { volumeOperations } from './volumes/schema.ts'
import type { Operation } from './http/operation.ts'

/**
 * All API operations by id: the server registers them, the OpenAPI document lists them and the tests enumerate them.
 */
export const allOperations: Readonly<Record<string, Operation>> = {
  ...healthOperations,
  ...apiDocsOperations,
  ...upcallOperations,
  ...billingWebhookOperations,
  ...scmWebhookOperations,
  ...authOperations,
  ...auditOperations,
  ...notificationOperations,
  ...billingOperations,
  ...usageOperations,
  ...scmOperations,
  ...projectOperations,
  ...appOperations,
  ...appFileOperations,
  ...variableOperations,
  ...domainOperations,
  ...deploymentOperations,
  ...appLogOperations,
  ...historyOperations,
  ...runOperations,
  ...jobOperations,
  ...buildOperations,
  ...vmOperations,
  ...vmSessionOperations,
  ...vmFileOperations,
  ...networkOperations,
  ...volumeOperations,
  ...databaseOperations,
  ...registryOperations,
  ...tcpServiceOperations,
  ...hostOperations,
}
