/** Connects a project to an installation of the integration on the source host. */
import type { Deps } from '../base/deps.ts'
import { invalidField, invalidState } from '../http/errors.ts'
import type { Handlers } from '../http/operation.ts'
import { forgetBrowser, isBrowser, markBrowser } from './browser.ts'
import type { SourceHost } from './provider.ts'
import type { scmOperations } from './schema.ts'
import { issueConfirmation, issueState, readConfirmation, readState } from './state.ts'
import * as store from './store.ts'

type InstallHandlers = Pick<Handlers<typeof scmOperations>, 'installScm' | 'scmCallback' | 'confirmScm'>

export const installHandlers = (deps: Deps, host: SourceHost | undefined): InstallHandlers => ({
  installScm: {
    read: async ({ project, caller, query, setCookie }) => {
      const { cookie, hash: browser } = markBrowser(deps.config.publicUrl)
      const desired = { projectId: project.id, userId: caller.userId, browser, confirms: query.confirm ?? false }
      const url = needed(host).installUrl(issueState(deps.vault, desired, deps.clock.now()))
      if (!desired.confirms) setCookie(cookie)
      return { url }
    },
  },

  scmCallback: {
    write: async call => {
      const { installation_id: id, state: text, code } = call.query
      const now = deps.clock.now()
      const state = text === undefined ? undefined : readState(deps.vault, text, now)
      // When an owner of a GitHub organization approves a member's request to install the integration, the browser
      // returns without a state. Webhooks report that installation instead.
      if (!state) throw invalidField('state', 'is missing, expired or invalid; start again with GET /v1/scm/install')
      if (!state.confirms && !isBrowser(deps.config.publicUrl, call.headers, state.browser))
        throw invalidField('state', 'was started in another browser; start again in this browser, in the dashboard')
      const source = needed(host)
      // Installation ids are guessable, so the source host must confirm that the user in the browser controls this one.
      // The response for an installation that does not exist is the same as for one of another account.
      if (code === undefined || !(await source.isControlledBy(code, id))) throw notInstaller()
      const found = await source.installation(id)
      if (!found)
        throw invalidField('installation_id', 'is not an installation of the GitHub App that this server uses')
      // The user who started the installation may have sent the link to another person, so bind the installation to the
      // project only when the user who started it enters the confirmation.
      if (state.confirms)
        return async () => ({
          status: 'confirm' as const,
          confirmation: issueConfirmation(deps.vault, { ...state, installationId: id }, now),
          message:
            'Copy the confirmation into the program in which you started installing the GitHub App, and do not share the confirmation. If you did not start this, close the page: nothing was changed.',
        })
      return async tx => {
        if (!(await store.spend(tx, state.id))) throw invalidField('state', 'was already used; start again')
        call.setCookie(forgetBrowser(deps.config.publicUrl))
        await store.recordInstallation(tx, found)
        await store.bindTo(tx, id, state.projectId)
        call.audit(
          {
            action: 'scm.installed',
            resourceType: 'scm_installation',
            resourceId: String(id),
            details: { login: found.login },
          },
          { userId: state.userId, projectId: state.projectId },
        )
        return { status: 'installed' as const }
      }
    },
  },

  confirmScm: {
    write: async ({ body, caller, project, audit }) => {
      const confirmed = readConfirmation(deps.vault, body.confirmation, deps.clock.now())
      if (confirmed?.userId !== caller.userId || confirmed.projectId !== project.id)
        throw invalidField('confirmation', 'is expired, or not for you and this project; start again')
      const found = await needed(host).installation(confirmed.installationId)
      if (!found)
        throw invalidField(
          'confirmation',
          'is for an installation of the GitHub App that no longer exists; start again with GET /v1/scm/install',
        )
      return async tx => {
        if (!(await store.spend(tx, confirmed.id))) throw invalidField('confirmation', 'was already used; start again')
        await store.recordInstallation(tx, found)
        await store.bindTo(tx, found.id, project.id)
        audit({
          action: 'scm.installed',
          resourceType: 'scm_installation',
          resourceId: String(found.id),
          details: { login: found.login },
        })
        return { status: 'installed' as const }
      }
    },
  },
})

const notInstaller = () =>
  invalidField(
    'code',
    'does not prove that you control this installation of the GitHub App; start again with GET /v1/scm/install as an account that reads all of its repositories. The GitHub App must request user authorization during installation',
  )

function needed(host: SourceHost | undefined): SourceHost {
  if (host) return host
  throw invalidState('This installation of Mote has no GitHub App. An operator sets MOTE_GITHUB_APP_ID.')
}
