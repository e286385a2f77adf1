// The extension for VS Code with a real `rnnc lsp`, and a stand-in for the editor that keeps what it is
// given: types an error, sees it, and asks everything that the editor asks.
//
//     node vscode.js EXTENSION_FOLDER RNNC

'use strict';

const assert = require('assert');
const Module = require('module');
const path = require('path');

const [, , folder, rnnc] = process.argv;
const uri = 'file:///folder/a.rnn';
const TEXT = 'cell A[H](x: [H]) -> y {\n  param w: [H]\n  k = tanh(w * x[t])\n  y = 2*k\n}\n';

// ---- The editor, as far as the extension uses it ----

const record = (...names) => class {
  constructor(...values) { names.forEach((name, at) => { this[name] = values[at]; }); }
};
const enumeration = (...names) => Object.fromEntries(names.map((name, at) => [name, at]));
const providers = {};
const register = (name) => (language, provider, ...more) => {
  assert.strictEqual(language, 'rnn');
  providers[name] = { provider, more };
  return { dispose() {} };
};
const handlers = {};
const on = (name) => (handler) => {
  handlers[name] = handler;
  return { dispose() {} };
};
const errors = [];
let waiting = null;  // for the next diagnostics
const settings = { path: rnnc };

const vscode = {
  Position: record('line', 'character'),
  Range: record('start', 'end'),
  Location: record('uri', 'range'),
  Uri: { parse: (text) => ({ toString: () => text }) },
  Diagnostic: record('range', 'message', 'severity'),
  DiagnosticRelatedInformation: record('location', 'message'),
  MarkdownString: class {
    value = '';
    appendMarkdown(text) { this.value += text; }
  },
  WorkspaceEdit: class {
    edits = [];
    replace(of, range, text) { this.edits.push({ uri: of.toString(), range, text }); }
  },
  TextEdit: record('range', 'newText'),
  Hover: record('contents', 'range'),
  DocumentHighlight: record('range', 'kind'),
  DocumentSymbol: record('name', 'detail', 'kind', 'range', 'selectionRange'),
  CompletionItem: record('label', 'kind'),
  SignatureHelp: class {},
  SignatureInformation: record('label', 'documentation'),
  ParameterInformation: record('label'),
  CodeAction: record('title', 'kind'),
  CodeActionKind: { Empty: { append: (kind) => kind } },
  FoldingRange: record('start', 'end', 'kind'),
  FoldingRangeKind: { Comment: 'comment' },
  InlayHint: record('position', 'label', 'kind'),
  InlayHintKind: { Type: 1 },
  SemanticTokens: record('data'),
  SemanticTokensLegend: record('tokenTypes', 'tokenModifiers'),
  SymbolKind: enumeration('File', 'Module', 'Namespace', 'Package', 'Class'),
  languages: {
    createDiagnosticCollection: () => ({
      set: (of, list) => {
        assert.strictEqual(of.toString(), uri);
        waiting?.(list);
      },
      clear() {},
      dispose() {},
    }),
    ...Object.fromEntries([
      'HoverProvider', 'DefinitionProvider', 'ReferenceProvider', 'DocumentHighlightProvider',
      'RenameProvider', 'CompletionItemProvider', 'SignatureHelpProvider', 'DocumentSymbolProvider',
      'DocumentFormattingEditProvider', 'FoldingRangeProvider', 'InlayHintsProvider',
      'CodeActionsProvider', 'DocumentSemanticTokensProvider',
    ].map((name) => [`register${name}`, register(name)])),
  },
  workspace: {
    textDocuments: [],
    getConfiguration: () => ({ get: (key) => settings[key] }),
    onDidOpenTextDocument: on('open'),
    onDidChangeTextDocument: on('change'),
    onDidCloseTextDocument: on('close'),
  },
  window: { showErrorMessage: (text) => errors.push(text) },
};

const load = Module._load;
Module._load = (name, ...rest) => name === 'vscode' ? vscode : load(name, ...rest);
const extension = require(path.join(folder, 'extension.js'));

// ---- What a user does ----

const document = { languageId: 'rnn', version: 1, uri: vscode.Uri.parse(uri), getText: () => TEXT };
const at = (line, character) => new vscode.Position(line, character);
const diagnostics = (act) => new Promise((resolve) => {
  waiting = resolve;
  act();
});
const ask = (name, method, ...args) => providers[name].provider[method](document, ...args);

async function main() {
  await extension.activate({ subscriptions: [] });
  assert.deepStrictEqual(await diagnostics(() => handlers.open(document)), []);
  const change = (from, to, text) => diagnostics(() => {
    ++document.version;
    handlers.change({ document, contentChanges: [{ range: new vscode.Range(from, to), text }] });
  });
  const [wrong] = await change(at(2, 6), at(2, 10), 'tahn');
  assert.match(wrong.message, /did you mean `tanh`\?/);
  assert.deepStrictEqual([wrong.severity, wrong.range.start.line, wrong.source], [0, 2, 'rnnc']);
  const [fix] = await ask('CodeActionsProvider', 'provideCodeActions', wrong.range);
  assert.deepStrictEqual([fix.kind, fix.edit.edits[0].text], ['quickfix', 'tanh']);
  assert.deepStrictEqual(await change(at(2, 6), at(2, 10), 'tanh'), []);

  const place = at(3, 8);  // k
  assert.match((await ask('HoverProvider', 'provideHover', place)).contents.value, /k: \[H\]/);
  assert.strictEqual(
      (await ask('DefinitionProvider', 'provideDefinition', place)).range.start.line, 2);
  assert.strictEqual((await ask('ReferenceProvider', 'provideReferences', place,
                                { includeDeclaration: true })).length, 2);
  assert.strictEqual(
      (await ask('DocumentHighlightProvider', 'provideDocumentHighlights', place)).length, 2);
  assert.strictEqual((await ask('RenameProvider', 'prepareRename', place)).start.character, 8);
  const renamed = await ask('RenameProvider', 'provideRenameEdits', place, 'gate');
  assert.deepStrictEqual(renamed.edits.map((edit) => edit.text), ['gate', 'gate']);
  await assert.rejects(ask('RenameProvider', 'provideRenameEdits', place, 't'), /names the step/);
  const items = await ask('CompletionItemProvider', 'provideCompletionItems', place);
  assert.ok(items.some(({ label }) => label === 'sigmoid'));
  const help = await ask('SignatureHelpProvider', 'provideSignatureHelp', at(2, 12));
  assert.strictEqual(help.activeParameter, 0);
  assert.deepStrictEqual(providers.SignatureHelpProvider.more, ['(', ',']);
  const [symbol] = await ask('DocumentSymbolProvider', 'provideDocumentSymbols');
  assert.deepStrictEqual([symbol.name, symbol.kind, symbol.children.length],
                         ['A', vscode.SymbolKind.Class, 5]);
  const [format] = await ask('DocumentFormattingEditProvider', 'provideDocumentFormattingEdits');
  assert.match(format.newText, /y = 2 \* k/);
  assert.strictEqual((await ask('FoldingRangeProvider', 'provideFoldingRanges')).length, 1);
  const hints = await ask('InlayHintsProvider', 'provideInlayHints',
                          new vscode.Range(at(0, 0), at(5, 0)));
  assert.deepStrictEqual(hints.map(({ label }) => label), [': [H]', ': [H]']);
  const { data } = await ask('DocumentSemanticTokensProvider', 'provideDocumentSemanticTokens');
  assert.ok(data.length > 0 && data.length % 5 === 0);

  assert.deepStrictEqual(await diagnostics(() => handlers.close(document)), []);
  await extension.deactivate();
  assert.deepStrictEqual(errors, []);

  settings.path = '/no/such/program';
  await extension.activate({ subscriptions: [] });
  assert.match(errors.join(), /`\/no\/such\/program` cannot be run: .*"rnnc\.path"/);
  console.log('all is well');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
