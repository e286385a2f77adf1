'use strict';
// Starts `rnnc lsp` and hands its answers to the editor. The library that does this for other
// extensions is none of this folder's, so that it works as it lies here.

const vscode = require('vscode');
const { Connection } = require('./connection');

const LANGUAGE = 'rnn';

// Between the protocol's places and the editor's.
const toPosition = ({ line, character }) => new vscode.Position(line, character);
const toRange = ({ start, end }) => new vscode.Range(toPosition(start), toPosition(end));
const toLocation = ({ uri, range }) => new vscode.Location(vscode.Uri.parse(uri), toRange(range));
const fromPosition = ({ line, character }) => ({ line, character });
const fromRange = ({ start, end }) => ({ start: fromPosition(start), end: fromPosition(end) });
const toText = (content) => {
  const markdown = new vscode.MarkdownString();
  if (content) markdown.appendMarkdown(content.value ?? content);
  return markdown;
};

function toDiagnostic({ range, severity, source, message, relatedInformation }) {
  // The protocol counts severities from 1.
  const diagnostic = new vscode.Diagnostic(toRange(range), message, severity - 1);
  diagnostic.source = source;
  diagnostic.relatedInformation = (relatedInformation ?? []).map((note) => (
    new vscode.DiagnosticRelatedInformation(toLocation(note.location), note.message)));
  return diagnostic;
}

function toWorkspaceEdit({ changes }) {
  const edit = new vscode.WorkspaceEdit();
  for (const [uri, edits] of Object.entries(changes)) {
    edits.forEach(({ range, newText }) => (
      edit.replace(vscode.Uri.parse(uri), toRange(range), newText)));
  }
  return edit;
}

function toSymbol({ name, detail, kind, range, selectionRange, children }) {
  // Here, too, the protocol counts from 1.
  const symbol = new vscode.DocumentSymbol(
      name, detail, kind - 1, toRange(range), toRange(selectionRange));
  symbol.children = (children ?? []).map(toSymbol);
  return symbol;
}

function toCompletion({ label, kind, detail, documentation }) {
  const item = new vscode.CompletionItem(label, kind - 1);
  item.detail = detail;
  if (documentation) item.documentation = toText(documentation);
  return item;
}

function toSignatureHelp({ signatures, activeSignature, activeParameter }) {
  const help = new vscode.SignatureHelp();
  help.signatures = signatures.map(({ label, parameters, documentation }) => {
    const signature = new vscode.SignatureInformation(label, toText(documentation));
    signature.parameters = parameters.map((parameter) => (
      new vscode.ParameterInformation(parameter.label)));
    return signature;
  });
  Object.assign(help, { activeSignature, activeParameter });
  return help;
}

function toAction({ title, kind, isPreferred, edit }) {
  const action = new vscode.CodeAction(title, vscode.CodeActionKind.Empty.append(kind));
  action.edit = toWorkspaceEdit(edit);
  action.isPreferred = isPreferred;
  return action;
}

/** What the editor asks for, each with its question to the server and what it makes of the answer. */
function registerProviders(ask, legend) {
  const languages = vscode.languages;
  const at = (document, position, more = {}) => ({
    textDocument: { uri: document.uri.toString() }, position: fromPosition(position), ...more,
  });
  const of = (document, more = {}) => ({ textDocument: { uri: document.uri.toString() }, ...more });
  const list = (convert) => (answer) => (answer ?? []).map(convert);
  const one = (convert) => (answer) => answer ? convert(answer) : null;
  const toEdit = ({ range, newText }) => new vscode.TextEdit(toRange(range), newText);
  return [
    languages.registerHoverProvider(LANGUAGE, {
      provideHover: (document, position) => ask('hover', at(document, position)).then(one(
          ({ contents, range }) => new vscode.Hover(toText(contents), toRange(range)))),
    }),
    languages.registerDefinitionProvider(LANGUAGE, {
      provideDefinition: (document, position) => (
        ask('definition', at(document, position)).then(one(toLocation))),
    }),
    languages.registerReferenceProvider(LANGUAGE, {
      provideReferences: (document, position, context) => (
        ask('references', at(document, position, { context })).then(list(toLocation))),
    }),
    languages.registerDocumentHighlightProvider(LANGUAGE, {
      provideDocumentHighlights: (document, position) => (
        ask('documentHighlight', at(document, position)).then(list(
            ({ range, kind }) => new vscode.DocumentHighlight(toRange(range), kind - 1)))),
    }),
    languages.registerRenameProvider(LANGUAGE, {
      prepareRename: (document, position) => (
        ask('prepareRename', at(document, position)).then(one(
            (answer) => toRange(answer.range ?? answer)))),
      provideRenameEdits: (document, position, newName) => (
        ask('rename', at(document, position, { newName })).then(one(toWorkspaceEdit))),
    }),
    languages.registerCompletionItemProvider(LANGUAGE, {
      provideCompletionItems: (document, position) => (
        ask('completion', at(document, position)).then(list(toCompletion))),
    }),
    languages.registerSignatureHelpProvider(LANGUAGE, {
      provideSignatureHelp: (document, position) => (
        ask('signatureHelp', at(document, position)).then(one(toSignatureHelp))),
    }, '(', ','),
    languages.registerDocumentSymbolProvider(LANGUAGE, {
      provideDocumentSymbols: (document) => (
        ask('documentSymbol', of(document)).then(list(toSymbol))),
    }),
    languages.registerDocumentFormattingEditProvider(LANGUAGE, {
      provideDocumentFormattingEdits: (document) => (
        ask('formatting', of(document)).then(list(toEdit))),
    }),
    languages.registerFoldingRangeProvider(LANGUAGE, {
      provideFoldingRanges: (document) => ask('foldingRange', of(document)).then(list(
          ({ startLine, endLine, kind }) => new vscode.FoldingRange(
              startLine, endLine,
              kind === 'comment' ? vscode.FoldingRangeKind.Comment : undefined))),
    }),
    languages.registerInlayHintsProvider(LANGUAGE, {
      provideInlayHints: (document, range) => (
        ask('inlayHint', of(document, { range: fromRange(range) })).then(list(
            ({ position, label }) => new vscode.InlayHint(
                toPosition(position), label, vscode.InlayHintKind.Type)))),
    }),
    languages.registerCodeActionsProvider(LANGUAGE, {
      provideCodeActions: (document, range) => ask('codeAction', of(document, {
        range: fromRange(range), context: { diagnostics: [] },
      })).then(list(toAction)),
    }),
    languages.registerDocumentSemanticTokensProvider(LANGUAGE, {
      provideDocumentSemanticTokens: (document) => ask('semanticTokens/full', of(document)).then(one(
          ({ data }) => new vscode.SemanticTokens(new Uint32Array(data)))),
    }, new vscode.SemanticTokensLegend(legend.tokenTypes, legend.tokenModifiers)),
  ];
}

/** Tells the server of each text of the language, now and later. */
function followDocuments(connection) {
  const isOurs = (document) => document.languageId === LANGUAGE;
  const uriOf = (document) => document.uri.toString();
  const opened = (document) => {
    if (!isOurs(document)) return;
    connection.notify('textDocument/didOpen', { textDocument: {
      uri: uriOf(document), languageId: LANGUAGE, version: document.version,
      text: document.getText(),
    } });
  };
  vscode.workspace.textDocuments.forEach(opened);
  return [
    vscode.workspace.onDidOpenTextDocument(opened),
    vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
      if (!isOurs(document) || contentChanges.length === 0) return;
      connection.notify('textDocument/didChange', {
        textDocument: { uri: uriOf(document), version: document.version },
        // The editor has them from the last place to the first, so that none moves another.
        contentChanges: contentChanges.map(({ range, text }) => ({ range: fromRange(range), text })),
      });
    }),
    vscode.workspace.onDidCloseTextDocument((document) => {
      if (!isOurs(document)) return;
      connection.notify('textDocument/didClose', { textDocument: { uri: uriOf(document) } });
    }),
  ];
}

let running = null;

async function activate(context) {
  const command = vscode.workspace.getConfiguration('rnnc').get('path', 'rnnc');
  const found = vscode.languages.createDiagnosticCollection(LANGUAGE);
  context.subscriptions.push(found);
  let leaving = false;
  const connection = new Connection(command, ['lsp'], {
    notified: (method, params) => {
      if (method !== 'textDocument/publishDiagnostics') return;
      found.set(vscode.Uri.parse(params.uri), params.diagnostics.map(toDiagnostic));
    },
    ended: (why) => {
      found.clear();
      if (!leaving) {
        vscode.window.showErrorMessage(
            `rnnc: ${why}. The setting "rnnc.path" says where the program lies.`);
      }
    },
  });
  running = { connection, leave: () => { leaving = true; } };
  // What the server refuses, such as a name, the editor shows itself where it asked in words.
  const ask = (method, params) => connection.request(`textDocument/${method}`, params);
  const quietly = (method, params) => (
    ['rename', 'prepareRename'].includes(method) ? ask(method, params)
      : ask(method, params).catch(() => null));
  try {
    const { capabilities } = await connection.request('initialize', {
      processId: process.pid, rootUri: null, capabilities: {},
    });
    connection.notify('initialized', {});
    context.subscriptions.push(
        ...registerProviders(quietly, capabilities.semanticTokensProvider.legend),
        ...followDocuments(connection));
  } catch {
    // `ended` has told.
  }
}

async function deactivate() {
  if (!running) return;
  const { connection, leave } = running;
  running = null;
  leave();
  await connection.request('shutdown', null).catch(() => null);
  connection.notify('exit', null);
}

module.exports = { activate, deactivate };
