import type { Invitation, Member } from '@mote/client'
import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { UserPlus, X } from 'lucide-react'
import { useState } from 'react'
import { api } from '../api/client.ts'
import { queries, queryClient } from '../api/queries.ts'
import { ActionButton, attempt } from '../ui/action.tsx'
import { Button } from '../ui/button.tsx'
import { CopyBox } from '../ui/copy.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { type RowFilter, useRowFilter } from '../ui/filter.tsx'
import { Choice, controlLook, Field } from '../ui/form.tsx'
import { Card, Page } from '../ui/layout.tsx'
import { DestroyLink } from '../ui/row-actions.tsx'
import { isMissing, Loaded } from '../ui/states.tsx'
import { MissingProject } from './project.tsx'
import { Badge } from '../ui/status.tsx'
import { Table } from '../ui/table.tsx'

const roles = ['owner', 'admin', 'member', 'viewer'] as const
type Role = (typeof roles)[number]
const meaning = {
  owner: 'Owner: everything',
  admin: 'Admin: also manages members and viewers',
  member: 'Member: full access to resources',
  viewer: 'Viewer: read only',
} as const satisfies Record<Role, string>

const refresh = () => queryClient.invalidateQueries({ queryKey: ['members'] })

const filter: RowFilter<Member> = {
  list: 'members',
  find: 'Find a member',
  text: one => [one.first_name, one.last_name, one.email].join(' '),
  status: one => one.role,
}

export function Members() {
  const { slug } = useParams({ from: '/shell/projects/$slug/members' })
  const list = useQuery(queries.members(slug))
  const me = useQuery(queries.me())
  const [link, setLink] = useState<string>()
  const { bar, shows } = useRowFilter(filter, list.data?.members)
  const mine = list.data?.members.find(member => member.user_id === me.data?.id)?.role
  const reason =
    mine === 'owner' || mine === 'admin' ? undefined : 'Only owners and admins of the project manage its members.'
  if (isMissing(list.error) && !list.data)
    return (
      <Page title="Members">
        <MissingProject />
      </Page>
    )
  return (
    <Page
      title="Members"
      lead="People with access to this project."
      actions={<Invite slug={slug} reason={reason} done={setLink} />}
    >
      <div className="space-y-4">
        {link && (
          <Card
            title="Invited"
            lead="If mail is configured, we have sent this link. Anyone with the link can accept the invitation."
          >
            <CopyBox text={link} label="invitation link" />
          </Card>
        )}
        <Card flush>
          <Loaded query={list}>
            {({ members }) => (
              <>
                <div className="flex flex-wrap items-center gap-3 px-3 pt-3 empty:hidden">{bar}</div>
                <MemberTable slug={slug} members={members} shows={shows} me={me.data?.id} mine={mine} />
              </>
            )}
          </Loaded>
        </Card>
        {list.data && list.data.invitations.length > 0 && (
          <Card flush title="Open invitations">
            <Invitations slug={slug} invitations={list.data.invitations} reason={reason} />
          </Card>
        )}
      </div>
    </Page>
  )
}

function MemberTable({
  slug,
  members,
  shows,
  me,
  mine,
}: {
  readonly slug: string
  readonly members: readonly Member[]
  readonly shows: (member: Member) => boolean
  readonly me: string | undefined
  readonly mine: Role | undefined
}) {
  const owners = members.filter(member => member.role === 'owner').length
  /** Why a member cannot be changed, by the server's rules: admins manage members and viewers, owners everyone. */
  const whyNot = (member: Member): string | undefined => {
    if (member.role === 'owner' && owners === 1) return 'A project needs an owner. Make another member owner first.'
    if (mine === 'owner' || (mine === 'admin' && (member.role === 'member' || member.role === 'viewer')))
      return undefined
    return `Your role (${mine ?? 'guest'}) cannot change this member.`
  }
  return (
    <Table
      label="Members"
      rows={members.filter(shows)}
      keyOf={member => member.user_id}
      columns={[
        {
          title: 'Member',
          cell: member => (
            <div className="min-w-0">
              <p className="font-medium">
                {[member.first_name, member.last_name].filter(Boolean).join(' ') || member.email}
                {member.user_id === me && <span className="ml-2 font-normal text-muted">you</span>}
              </p>
              <p className="truncate text-xs text-muted">{member.email}</p>
            </div>
          ),
        },
        {
          title: 'Role',
          cell: member =>
            whyNot(member) ? (
              <span title={whyNot(member)}>
                <Badge>{member.role}</Badge>
              </span>
            ) : (
              <select
                aria-label={`Role of ${member.email}`}
                value={member.role}
                className={`${controlLook} w-28! border-line-strong`}
                onChange={event => {
                  const role = roles.find(one => one === event.target.value)
                  if (role)
                    void attempt(
                      () => api.updateMember({ tenant_slug: slug, user_id: member.user_id, body: { role } }),
                      `${member.email} is now ${role}`,
                    ).then(refresh)
                }}
              >
                {roles.map(role => (
                  <option key={role} disabled={mine === 'admin' && (role === 'owner' || role === 'admin')}>
                    {role}
                  </option>
                ))}
              </select>
            ),
        },
        { title: 'Since', at: member => member.since },
      ]}
      actionsOf={member => <Leave slug={slug} member={member} isMe={member.user_id === me} reason={whyNot(member)} />}
    />
  )
}

function Leave({
  slug,
  member,
  isMe,
  reason,
}: {
  readonly slug: string
  readonly member: Member
  readonly isMe: boolean
  readonly reason: string | undefined
}) {
  return (
    <DestroyLink
      name={member.email}
      verb={isMe ? 'Leave' : 'Remove'}
      what={isMe ? 'project' : 'member'}
      consequence={isMe ? 'You leave the project.' : 'They lose access to the project immediately.'}
      reason={isMe && member.role !== 'owner' ? undefined : reason}
      send={async () => {
        await api.removeMember({ tenant_slug: slug, user_id: member.user_id })
        await refresh()
        await queryClient.invalidateQueries({ queryKey: ['projects'] })
      }}
    />
  )
}

function Invitations({
  slug,
  invitations,
  reason,
}: {
  readonly slug: string
  readonly invitations: readonly Invitation[]
  readonly reason: string | undefined
}) {
  return (
    <Table
      label="Open invitations"
      rows={invitations}
      keyOf={one => one.id}
      columns={[
        { title: 'Email', cell: one => <span className="wrap-anywhere">{one.email}</span> },
        { title: 'Role', cell: one => <Badge>{one.role}</Badge> },
        { title: 'Expires', at: one => one.expires_at },
      ]}
      actionsOf={one => (
        <ActionButton
          look="quiet"
          size="smallIcon"
          aria-label={`Withdraw the invitation of ${one.email}`}
          reason={reason}
          act={async () => {
            await api.withdrawInvitation({ tenant_slug: slug, invitation_id: one.id })
            await refresh()
          }}
        >
          <X aria-hidden="true" size={14} />
        </ActionButton>
      )}
    />
  )
}

function Invite({
  slug,
  reason,
  done,
}: {
  readonly slug: string
  readonly reason: string | undefined
  /** Called after the invitation was created, with its link. */
  readonly done: (link: string | undefined) => void
}) {
  return (
    <FormDialog
      title="Invite a member"
      lead="If mail is configured, they get a link by mail. It is also shown to you."
      submit="Invite"
      trigger={open => (
        <Button look="primary" onClick={open} reason={reason}>
          <UserPlus aria-hidden="true" size={15} /> Invite
        </Button>
      )}
      send={async values => {
        const role = (['admin', 'member', 'viewer'] as const).find(one => one === values.text('role')) ?? 'member'
        const made = await api.inviteMember({ tenant_slug: slug, body: { email: values.text('email'), role } })
        done(made.link)
        await refresh()
      }}
      fields={
        <>
          <Field label="Email" name="email" type="email" required autoFocus />
          <Choice label="Role" name="role" defaultValue="member">
            {(['admin', 'member', 'viewer'] as const).map(role => (
              <option key={role} value={role}>
                {meaning[role]}
              </option>
            ))}
          </Choice>
        </>
      }
    />
  )
}
